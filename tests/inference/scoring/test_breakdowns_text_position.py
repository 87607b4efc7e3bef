from __future__ import annotations

from nextword.inference.scoring.breakdowns import TextPosition
from tests.helpers.token_rows import token_row


def test_groups_double_from_sixteen_on() -> None:
    position = TextPosition()
    codes = position.codes(token_row([5] * 2000, prompt=[6] * 40))
    names = {position.names[code]: int((codes == code).sum()) for code in dict.fromkeys(codes.tolist())}
    assert names == {
        "1 to 16": 16, "17 to 32": 16, "33 to 64": 32, "65 to 128": 64, "129 to 256": 128, "257 to 512": 256,
        "513 to 1,024": 512, "from 1,025 on": 976,
    }  # fmt: skip

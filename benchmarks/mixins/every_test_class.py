"""The module that pytest collects: a test class for each backbone with each head.

One class or test by itself, as pytest takes it:

    pytest "benchmarks/mixins/every_test_class.py::gpt2 cache::test_save_load"
"""

from __future__ import annotations

from mixins.backbones import pairs
from mixins.derived import derived_class, make_known, name_of
from mixins.their_tests import folder, mixins

make_known()
_theirs = mixins(folder())
for _backbone, _head in pairs():
    globals()[name_of(_backbone, _head)] = derived_class(_backbone, _head, _theirs)

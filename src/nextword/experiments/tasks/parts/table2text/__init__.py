"""What the task ``table2text`` is made of: tables as text, with what was computed of them beforehand."""

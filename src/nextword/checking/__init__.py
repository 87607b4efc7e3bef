"""The parts of the checker: what is asked, of which texts, how it is measured, and the report."""

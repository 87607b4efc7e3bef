"""The audit of next-word distributions of any model or scorer. It also tests the properties of the checker."""

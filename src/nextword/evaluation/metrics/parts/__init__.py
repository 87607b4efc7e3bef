"""What metrics share: samples, units, n-grams, statistics, intervals and paired tests; nothing is registered here."""

"""What is known of a model and what it cost: answers, rows, precision, ledger and journal."""

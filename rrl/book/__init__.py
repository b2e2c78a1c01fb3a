"""What only the book's pages use: verdicts, proof ledgers, the figure style and the frame viewer."""

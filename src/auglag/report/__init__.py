"""What a run says: messages and advice, the progress table, HTML pages."""

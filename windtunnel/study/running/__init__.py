"""Making a study: cells in turn, or several at once; how long they take; their surveys; stopping and going on."""

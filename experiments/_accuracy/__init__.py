"""Parts of the accuracy experiment: inputs, truth, the libraries, the errors and the page."""

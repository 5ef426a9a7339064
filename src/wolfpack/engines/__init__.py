"""The paper's algorithms over one problem record, swapped by one argument."""

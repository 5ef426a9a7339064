"""Problems that come with wolfpack: each a record of data and a few functions."""

//! How values travel: encode, decode, and the schema of an interface.

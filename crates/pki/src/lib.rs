//! Keys, certificates and tokens: the hands behind authentication.

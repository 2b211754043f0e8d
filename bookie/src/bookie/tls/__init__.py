"""TLS for every port and every client: the names in certificates, and the files that TLS needs.

`principals`: the names that certificates give their holders, each with a role. `credentials`: a
folder with a certificate, its key and the authorities that are trusted, turned into contexts for
the libraries that speak TLS.
"""

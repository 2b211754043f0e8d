"""Who is who by certificate, and the files that TLS is made of, for every port and every client.

`principals`: names in certificates, and what a role may do. `credentials`: a folder with a
certificate, its key and the authorities that are trusted, as contexts for the libraries that
speak TLS.
"""

"""The API over HTTP: paths and parameters in, JSON, tables and watch streams out. The rules live in
`apiserver`.
"""

"""The documents of the API as types, and their description.

Only types belong here, and no I/O. Their fields are the API: a field is never renamed, and a new
one is seen by viewers of the whole cluster at once.

    documents      the documents about the present
    cycles         the documents about cycles
    map_columns    the columns of the map
    openapi        the OpenAPI description, made from the types
"""

"""Who a session is and what it may do: grants, tokens, hub JWTs, auth providers, outbound HTTP.

Reading order: `identity` (pure), `jws` and `claims` (pure), `tokens`, `keys` → `jwks` → `jwt`,
`addresses` (pure) → `outbound`, `provider`, `authenticator`. Nothing here knows the session itself.
"""

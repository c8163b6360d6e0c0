"""Every kind of bad configuration is named with its file, line, column and field."""

import textwrap
from pathlib import Path

import pytest

from arauto.config.load import examine, load
from arauto.config.problems import ConfigError
from arauto.errors import Code

# (name, file, expected problems as "line:column: field: message")
CASES: list[tuple[str, str, list[str]]] = [
    (
        "unknown field, near miss",
        """
        connection:
          prot: 9000
        """,
        ["2:3: connection.prot: unknown field; did you mean port?"],
    ),
    (
        "unknown category, near miss",
        """
        konnection:
          port: 9000
        """,
        ["1:1: konnection: unknown field; did you mean connection?"],
    ),
    (
        "unknown field, no idea",
        """
        connection:
          zzz: 1
        """,
        ["2:3: connection.zzz: unknown field"],
    ),
    (
        "snake case",
        """
        connection:
          max_connections: 5
        """,
        ["2:3: connection.max_connections: unknown field; did you mean maxConnections?"],
    ),
    (
        "field of another group",
        """
        engine:
          sslMode: require
        """,
        ["2:3: engine.sslMode: unknown field; it belongs to storage.postgres"],
    ),
    (
        "field at the top",
        """
        pingIntervalS: 5
        """,
        ["1:1: pingIntervalS: unknown field; it belongs to session"],
    ),
    (
        "text for a number",
        """
        connection:
          port: eighty
        """,
        ['2:9: connection.port: expected a whole number from 0 to 65535, found text "eighty"'],
    ),
    (
        "number out of range",
        """
        connection:
          port: 65536
        """,
        ["2:9: connection.port: expected a whole number from 0 to 65535, found 65536"],
    ),
    (
        "negative number",
        """
        connection:
          port: -1
        """,
        ["2:9: connection.port: expected a whole number from 0 to 65535, found -1"],
    ),
    (
        "fraction for a whole number",
        """
        connection:
          port: 80.5
        """,
        ["2:9: connection.port: expected a whole number from 0 to 65535, found 80.5"],
    ),
    (
        "octal is not a number here",
        """
        connection:
          port: 0400
        """,
        ['2:9: connection.port: expected a whole number from 0 to 65535, found text "0400"'],
    ),
    (
        "sexagesimal is not a number here",
        """
        connection:
          port: 80:80
        """,
        ['2:9: connection.port: expected a whole number from 0 to 65535, found text "80:80"'],
    ),
    (
        "truth for a number",
        """
        connection:
          port: yes
        """,
        ["2:9: connection.port: expected a whole number from 0 to 65535, found true"],
    ),
    (
        "number for a truth",
        """
        engine:
          allowDynamicHubs: 1
        """,
        ["2:21: engine.allowDynamicHubs: expected true or false, found 1"],
    ),
    (
        "infinity",
        """
        hub:
          closeTimeoutS: .inf
        """,
        ['2:18: hub.closeTimeoutS: expected a number from 0 to 3162240000, found text ".inf"'],
    ),
    (
        "not a number",
        """
        hub:
          closeTimeoutS: .nan
        """,
        ['2:18: hub.closeTimeoutS: expected a number from 0 to 3162240000, found text ".nan"'],
    ),
    (
        "zero for an interval",
        """
        session:
          authDeadlineS: 0
        """,
        ["2:18: session.authDeadlineS: expected a number above 0, at most 31622400, found 0"],
    ),
    (
        "number for text",
        """
        connection:
          host: 127
        """,
        ["2:9: connection.host: expected text, found 127; put it in quotes"],
    ),
    (
        "number for a secret is not shown",
        """
        admin:
          token: 31415926
        """,
        ["2:10: admin.token: expected text, found a number; put it in quotes"],
    ),
    (
        "nothing for text",
        """
        connection:
          host:
        """,
        ["2:8: connection.host: expected text, found nothing"],
    ),
    (
        "list for text",
        """
        connection:
          host: [a, b]
        """,
        ["2:9: connection.host: expected text, found a list"],
    ),
    (
        "group for text",
        """
        connection:
          host:
            name: a
        """,
        ["3:5: connection.host: expected text, found a group of fields"],
    ),
    (
        "text for a group",
        """
        connection:
          ws: fast
        """,
        ['2:7: connection.ws: expected a group of fields, found text "fast"'],
    ),
    (
        "text for a list",
        """
        connection:
          allowedOrigins: https://a.example
        """,
        [
            "2:19: connection.allowedOrigins: expected a list; each item text, "
            'found text "https://a.example"'
        ],
    ),
    (
        "wrong item of a list",
        """
        connection:
          allowedOrigins:
            - https://a.example
            - 5
        """,
        ["4:7: connection.allowedOrigins[1]: expected text, found 5; put it in quotes"],
    ),
    (
        "wrong value in a group of names",
        """
        telemetry:
          otlpHeaders:
            x-key: 99
        """,
        ["3:12: telemetry.otlpHeaders.x-key: expected text, found a number; put it in quotes"],
    ),
    (
        "not one of the choices",
        """
        storage:
          kind: mysql
        """,
        ['2:9: storage.kind: expected one of sqlite, postgres, memory, found text "mysql"'],
    ),
    (
        "not one of an enumeration",
        """
        hub:
          defaultRules:
            slowPolicy: shrug
        """,
        [
            "3:17: hub.defaultRules.slowPolicy: expected one of disconnect, drop_oldest, "
            'keep_latest, found text "shrug"'
        ],
    ),
    (
        "bad name",
        """
        node:
          name: my node
        """,
        [
            "2:9: node.name: expected text of letters, digits and . _ - (1 to 64), "
            'found text "my node"'
        ],
    ),
    (
        "unknown field deep inside the hub defaults",
        """
        hub:
          defaults:
            quotas:
              sessionMax: 5
        """,
        ["4:7: hub.defaults.quotas.sessionMax: unknown field; did you mean sessionsMax?"],
    ),
    (
        "written twice",
        """
        connection:
          port: 1
          port: 2
        """,
        ["3:3: connection.port: written twice; the first is on line 2"],
    ),
    (
        "category written twice",
        """
        admin:
          port: 1
        admin:
          port: 2
        """,
        ["3:1: admin: written twice; the first is on line 1"],
    ),
    (
        "alias",
        """
        connection: &a
          port: 1
        admin: *a
        """,
        ["1:13: anchors and aliases (& and *) are not used here; write the value out"],
    ),
    (
        "tag",
        """
        connection:
          host: !!python/object/apply:os.system ["true"]
        """,
        ["2:9: tags (!) are not used here"],
    ),
    ("number as key", "7: a\n", ["1:1: a key must be text; put it in quotes if it is"]),
    ("list as key", "? [a]\n: b\n", ["1:3: a key must be text; put it in quotes if it is"]),
    ("list at the top", "- a\n", ["1:1: expected categories such as `connection:`"]),
    (
        "two documents",
        "node: {}\n---\nnode: {}\n",
        ["2:1: expected a single document in the stream, but found another document"],
    ),
    (
        "tab",
        "connection:\n\tport: 1\n",
        [
            "2:1: while scanning for the next token, found character '\\t' that cannot start any token"
        ],
    ),
    (
        "bracket never closed",
        "connection:\n  host: [a\nadmin: 1\n",
        ["3:6: while parsing a flow sequence, expected ',' or ']', but got ':'"],
    ),
    ("control character", "node:\n  name: \x01\n", ["2:9: control characters are not allowed"]),
    (
        "too deep",
        "a: " + "[" * 40 + "]" * 40 + "\n",
        ["1:23: nested more than 20 levels deep"],
    ),
    # Fields taken together.
    (
        "pong not before the next ping",
        """
        session:
          pongTimeoutS: 25
        """,
        ["2:17: session.pongTimeoutS: must be below session.pingIntervalS (25)"],
    ),
    (
        "ports clash",
        """
        connection:
          port: 4040
        admin:
          host: 0.0.0.0
        """,
        ["2:9: admin.port: clashes with connection.port; both are 4040"],
    ),
    (
        "address with a port",
        """
        connection:
          host: localhost:80
        """,
        ["2:9: connection.host: expected an address or host name, without port or scheme"],
    ),
    (
        "certificate without key, and neither there",
        """
        connection:
          tls:
            certFile: /does/not/exist.pem
        """,
        [
            "3:15: connection.tls.certFile: needs connection.tls.keyFile beside it",
            "3:15: connection.tls.certFile: no such file",
        ],
    ),
    (
        "sampling more often than never",
        """
        engine:
          statsCollectIntervalS: 10
        """,
        [
            "2:26: engine.sessionMetricsIntervalS: "
            "must not be above engine.statsCollectIntervalS (10)"
        ],
    ),
    (
        "interval too short",
        """
        journal:
          heartbeatIntervalS: 0.001
        """,
        [
            "2:23: journal.heartbeatIntervalS: must be at least 1 s, "
            "or the node is busy with nothing else"
        ],
    ),
    (
        "buffer smaller than a message",
        """
        connection:
          ws:
            sendBufferBytes: 1024
        """,
        [
            "3:22: connection.ws.sendBufferBytes: "
            "must hold one message of hub.defaults.quotas.messageBytesMax (65536)"
        ],
    ),
    (
        "no room to read a message",
        """
        connection:
          ws:
            maxMessageBytes: 100000
            readBuffersBytesMax: 299999
        """,
        [
            "4:26: connection.ws.readBuffersBytesMax: must be at least three times "
            "connection.ws.maxMessageBytes (300000), or 0 for no limit"
        ],
    ),
    (
        "a quota of strangers smaller than a message",
        """
        hub:
          strangers:
            backlogsBytesMax: 1024
            retainedBytesMax: 0
        """,
        [
            "3:23: hub.strangers.backlogsBytesMax: must hold one message of "
            "hub.defaults.quotas.messageBytesMax (65536), or be 0 for no lower quota"
        ],
    ),
    (
        "more idle connections than connections",
        """
        sql:
          maxConnections: 4
          idleConnections: 5
        """,
        ["3:20: sql.idleConnections: must not be above sql.maxConnections (4)"],
    ),
    (
        "more live history than the node allows",
        """
        hub: {defaultRules: {liveHistoryLen: 500}}
        engine: {maxLiveHistorySize: 100}
        """,
        [
            "1:38: hub.defaultRules.liveHistoryLen: "
            "must not be above engine.maxLiveHistorySize (100)"
        ],
    ),
    (
        "PostgreSQL without a database",
        """
        storage:
          kind: postgres
          postgres:
            database: ""
        """,
        ["4:15: storage.postgres.database: must not be empty"],
    ),
    (
        "Redis address without scheme",
        """
        redis:
          address: 127.0.0.1:6379
        """,
        ["2:12: redis.address: expected redis://host:port or rediss://host:port"],
    ),
    (
        "credentials in an address",
        """
        redis:
          address: redis://u:p@127.0.0.1:6379
        """,
        ["2:12: redis.address: put the credentials into redis.username and redis.password"],
    ),
    (
        "anonymous refused and no way to authenticate",
        """
        hub:
          defaults:
            allowAnonymous: false
        """,
        [
            "3:21: hub.defaults.allowAnonymous: refuses anonymous sessions, "
            "but there is no authProvider and no jwt to authenticate with"
        ],
    ),
    (
        "two sources of keys",
        """
        hub:
          defaults:
            jwt:
              algorithm: HS256
              secret: 0123456789abcdef0123456789abcdeX
              jwksUrl: https://a.example/keys
        """,
        [
            "4:7: hub.defaults.jwt: needs exactly one of secret, publicKey, jwksFile, jwksUrl; "
            "found secret and jwksUrl"
        ],
    ),
    (
        "algorithm that does not fit the key",
        """
        hub:
          defaults:
            jwt:
              algorithm: HS256
              publicKey: PEM
        """,
        ["4:18: hub.defaults.jwt.algorithm: must be RS256 or EdDSA for publicKey"],
    ),
    (
        "auth provider that is no web address",
        """
        hub:
          defaults:
            authProvider:
              url: file:///etc/passwd
        """,
        ["4:12: hub.defaults.authProvider.url: expected an http:// or https:// URL"],
    ),
    (
        "origin with a path",
        """
        connection:
          allowedOrigins: ["https://a.example/shop"]
        """,
        [
            "2:20: connection.allowedOrigins[0]: "
            "expected scheme://host or scheme://host:port, in lower case"
        ],
    ),
    (
        "hosts that are more than a name",
        """
        connection:
          allowedHosts: ["live.example.com", "https://a.example"]
        admin:
          allowedHosts: ["a.example:4040"]
        """,
        [
            "2:38: connection.allowedHosts[1]: expected a host name alone, without scheme and port",
            "4:18: admin.allowedHosts[0]: expected a host name alone, without scheme and port",
        ],
    ),
    (
        "trace endpoint that is no web address",
        """
        telemetry:
          otlpEndpoint: localhost:4318
        """,
        ["2:17: telemetry.otlpEndpoint: expected an http:// or https:// URL"],
    ),
    (
        "user channels without a namespace",
        """
        hub:
          defaults:
            userChannelNamespace: "u:"
        """,
        [
            "3:27: hub.defaults.userChannelNamespace: userChannelNamespace is 1-64 of A-Z a-z 0-9 "
            ". _ - and starts with a letter or digit"
        ],
    ),
    (
        "short session secret",
        """
        auth:
          algorithm: HS512
          session:
            secret: 0123456789abcdefghijklmnopqrstuvwxyz
        """,
        ["4:13: auth.session.secret: HS512 needs at least 64 bytes"],
    ),
    (
        "production without secrets",
        """
        node:
          mode: production
        """,
        [
            " admin.token: must be set in production (the file does not have it)",
            " auth.session.secret: must be set in production (the file does not have it)",
        ],
    ),
    (
        "production without secrets in groups that are there",
        """
        node:
          mode: production
        auth:
          tokenTtlS: 60
          session: {}
        admin: {host: 127.0.0.1}
        """,
        [
            "5:3: auth.session.secret: must be set in production (the group here lacks it)",
            "6:1: admin.token: must be set in production (the group here lacks it)",
        ],
    ),
    (
        "production with well-known secrets",
        """
        node: {mode: production}
        admin: {token: "admin-token-secret-123"}
        auth: {session: {secret: "changeme-changeme-changeme-changeme"}}
        """,
        [
            "2:16: admin.token: is a well-known or repetitive value; use a random one",
            "3:26: auth.session.secret: is a well-known or repetitive value; use a random one",
        ],
    ),
    (
        "production with one secret for everything",
        """
        node: {mode: production}
        admin: {token: "qX7vR2mK9pL4wT8zB3nH6jF1sD5gC0yA"}
        auth: {session: {secret: "qX7vR2mK9pL4wT8zB3nH6jF1sD5gC0yA"}}
        """,
        ["2:16: admin.token: must not be the same as auth.session.secret"],
    ),
    (
        "production with a short admin token",
        """
        node: {mode: production}
        admin: {token: "qX7vR2mK9p"}
        auth: {session: {secret: "qX7vR2mK9pL4wT8zB3nH6jF1sD5gC0yA"}}
        """,
        ["2:16: admin.token: needs at least 16 characters in production"],
    ),
]


@pytest.mark.parametrize(("text", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_bad_configuration_is_explained(text: str, expected: list[str], tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    assert [str(problem) for problem in caught.value.problems] == [f"{file}:{e}" for e in expected]
    assert caught.value.code is Code.BAD_CONFIG


def test_a_missing_field_is_not_blamed_on_a_variable_of_its_neighbour(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("node: {mode: production}\nadmin: {host: 127.0.0.1}\n")
    environ = {"ARAUTO_ADMIN__PORT": "4050", "ARAUTO_AUTH__TOKEN_TTL_S": "60"}
    places = {problem.path: str(problem.place) for problem in examine(file, environ).problems}
    assert places == {"admin.token": f"{file}:2:1", "auth.session.secret": str(file)}
    alone = examine(None, {**environ, "ARAUTO_NODE__MODE": "production"}).problems
    assert {str(problem) for problem in alone} == {
        f"{path}: must be set in production" for path in places
    }


def test_all_problems_are_reported_at_once_and_in_order(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "connection:\n  prot: 1\n  host: 5\n  ws: {maxFragments: 0}\n"
        "session:\n  pongTimeoutS: 99\nadmin:\n  port: x\n",
    )
    lines = [problem.place.line for problem in examine(file, {}).problems]
    assert lines == [2, 3, 4, 6, 8]


def test_a_rule_over_two_fields_is_silent_while_one_of_them_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("session:\n  pingIntervalS: soon\n  pongTimeoutS: 30\n")
    assert [p.path for p in examine(file, {}).problems] == ["session.pingIntervalS"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.yaml: no such file"):
        load(tmp_path / "gone.yaml", {})


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory"):
        load(tmp_path, {})


def test_bytes_that_are_not_utf8_are_located(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(b"node:\n  name: \xe9t\xe9\n")
    with pytest.raises(ConfigError, match=r"config\.yaml:2:9: not valid UTF-8"):
        load(file, {})


def test_a_huge_file_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(b"a: [" + b"1," * 300_000 + b"]")
    with pytest.raises(ConfigError, match="larger than 262144 bytes"):
        load(file, {})


def test_an_expansion_bomb_is_refused_at_its_first_anchor(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    file = tmp_path / "config.yaml"
    file.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match="1:5: anchors and aliases"):
        load(file, {})


def test_the_error_says_how_many_problems_there_are(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("a: 1\nb: 2\n")
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    assert str(caught.value).startswith("the configuration has 2 problems:\n")
    assert caught.value.field == "a"

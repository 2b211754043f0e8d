"""The file of credentials for ZooKeeper's own authentication."""

import base64
import hashlib
from pathlib import Path

import pytest
from bookie.errors import SettingsError
from bookie.metadata.access import Access
from bookie.metadata.login import Login, read_login
from bookie.metadata.secure_client import SecureClient
from kazoo.retry import KazooRetry
from kazoo.security import Id

SECRET = "hunter-2"


def written(folder: Path, text: str) -> Path:
    path = folder / "zookeeper.yaml"
    path.write_text(text)
    return path


def login(scheme: str) -> Login:
    return Login.model_validate({"scheme": scheme, "user": "fleet", "password": SECRET})


def test_a_digest_names_its_user_by_the_password_too(tmp_path: Path) -> None:
    found = read_login(written(tmp_path, f"scheme: digest\nuser: fleet\npassword: {SECRET}\n"))
    hashed = base64.b64encode(hashlib.sha1(f"fleet:{SECRET}".encode()).digest()).decode()
    assert found.name == Id("digest", f"fleet:{hashed}")


def test_sasl_names_its_user_alone() -> None:
    assert login("sasl").name == Id("sasl", "fleet")


@pytest.mark.parametrize("scheme", ["sasl", "digest"])
def test_the_password_is_shown_nowhere(scheme: str) -> None:
    assert SECRET not in f"{login(scheme)!r} {login(scheme)}"


@pytest.mark.parametrize(
    "text",
    [
        f"- {SECRET}",
        f"scheme: digest\nuser: fleet\npasword: {SECRET}\n",
        f"scheme: kerberos\nuser: fleet\npassword: {SECRET}\n",
        f"scheme: digest\nuser: a:b\npassword: {SECRET}\n",
        f"scheme: [{SECRET}\n",
        f"scheme: digest\nuser: fleet\npassword: other\n{SECRET}: 1\n",
        "a: &a [x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
            for old, new in zip("abcdefg", "bcdefgh", strict=True)
        ),
    ],
)
def test_another_form_is_named_without_what_it_holds(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match=r"zookeeper\.yaml.*expected YAML") as caught:
        read_login(written(tmp_path, text))
    assert SECRET not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nothing, which cannot be read"):
        read_login(tmp_path / "nothing")


def test_access_lists_name_the_user_as_it_is_called_by_now(tmp_path: Path) -> None:
    form = "scheme: digest\nuser: fleet\npassword: {}\n"
    path = written(tmp_path, form.format(SECRET))
    client = SecureClient("localhost:1", timeout=1, connection_retry=KazooRetry(), login=path)
    others = Id("x509", "CN=fleet")
    client.access = Access((read_login(path).name, others))
    path.write_text(form.format("hunter-3"))
    client.refresh()
    assert client.access.fleet == (read_login(path).name, others)
    client.close()

"""`check --each`: alternatives of one object in different folders are checked one by one."""

from pathlib import Path

from planes import run_command

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: reviews, namespace: shop}
spec: {clusterIP: 10.0.0.1, selector: {app: reviews}, ports: [{port: 80, name: http}]}
"""
ROUTE = """
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews]
  http: [{route: [{destination: {host: HOST}}]}]
"""


def mesh(tmp_path: Path, **folders: str) -> Path:
    """Write a directory with a service, and a folder for each alternative route to it."""
    directory = tmp_path / "mesh"
    directory.mkdir()
    (directory / "service.yaml").write_text(SERVICE)
    for name, host in folders.items():
        (directory / name).mkdir()
        (directory / name / "route.yaml").write_text(ROUTE.replace("HOST", host))
    return directory


async def check(tmp_path: Path, directory: Path, *options: str) -> tuple[int, str]:
    return await run_command(tmp_path, "check", str(directory), *options)


async def test_alternatives_are_no_duplicates_of_each_other(tmp_path: Path) -> None:
    directory = mesh(tmp_path, one="reviews", two="reviews")

    code, output = await check(tmp_path, directory)
    assert code == 1
    assert "a second VirtualService shop/reviews" in output

    code, output = await check(tmp_path, directory, "--each")
    assert code == 0, output
    assert "2 objects in 2 files are good" in output


async def test_each_folder_is_reported_with_what_is_wrong_in_it(tmp_path: Path) -> None:
    directory = mesh(tmp_path, one="reviews", two="nowhere")

    code, output = await check(tmp_path, directory, "--each")

    assert code == 1
    assert "two/route.yaml:7: spec.http[0].route[0].destination.host: there is no service" in output
    assert "one/route.yaml" not in output


async def test_mistakes_in_files_common_to_all_are_reported_once(tmp_path: Path) -> None:
    directory = mesh(tmp_path, one="reviews", two="reviews")
    (directory / "service.yaml").write_text(SERVICE.replace("80", "99999"))

    code, output = await check(tmp_path, directory, "--each")

    assert code == 1
    assert output.count("service.yaml:5: spec.ports[0].port") == 1


async def test_a_directory_without_folders_has_nothing_to_check_one_by_one(tmp_path: Path) -> None:
    code, output = await check(tmp_path, mesh(tmp_path), "--each")

    assert code == 1
    assert "has no folders that could be checked one by one" in output

"""Extension providers of mesh config: the services that authorize, trace and take logs."""

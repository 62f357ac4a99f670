"""`python -m windtunnel` is the `windtunnel` command."""

from windtunnel.cli.main import main

raise SystemExit(main())

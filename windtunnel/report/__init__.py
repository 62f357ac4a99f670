"""Figures and the page: everything a results folder holds, in one file that opens anywhere.

source = read("results/paper")
write_page(source, "report.html")
write_figures(source, "figures")
"""

from windtunnel.report.command_line import Asked
from windtunnel.report.figures import write_figures
from windtunnel.report.page import write_page
from windtunnel.report.source import Source, read

__all__ = ["Asked", "Source", "read", "write_figures", "write_page"]

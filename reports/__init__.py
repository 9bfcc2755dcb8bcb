"""Result data as pages: one HTML file that needs no network, JUnit XML, and a summary for a terminal.

Reports are made from documents and datasets that commands have written, never from live objects, and this package
imports no other one of the project.
"""

if __name__ != "tornproof.reports":
    raise ImportError(f"this is tornproof.reports, and was imported as {__name__}", name=__name__)

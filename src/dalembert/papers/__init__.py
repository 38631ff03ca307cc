"""Papers whose tables and figures are regenerated, one module each."""

from dalembert.papers import arnold_cardona_bruels_2015 as arnold_cardona_bruels_2015
from dalembert.papers import ascher_petzold_1993 as ascher_petzold_1993
from dalembert.papers import eich_1993 as eich_1993
from dalembert.papers import jay_negrut_2007 as jay_negrut_2007
from dalembert.papers import wunderlich_2005 as wunderlich_2005
from dalembert.papers.base import Paper, papers

__all__ = ["Paper", "papers"]

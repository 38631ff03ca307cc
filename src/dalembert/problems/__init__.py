"""Reference problems with published or exact solutions, in thematic files."""

from dalembert.problems import andrews as andrews
from dalembert.problems import ascher_petzold as ascher_petzold
from dalembert.problems import car_axis as car_axis
from dalembert.problems import contact as contact
from dalembert.problems import double_pendulum as double_pendulum
from dalembert.problems import flexible_slider_crank as flexible_slider_crank
from dalembert.problems import four_bar as four_bar
from dalembert.problems import free as free
from dalembert.problems import friction as friction
from dalembert.problems import heavy_top as heavy_top
from dalembert.problems import jay_negrut as jay_negrut
from dalembert.problems import leaning_disc as leaning_disc
from dalembert.problems import massless as massless
from dalembert.problems import maxwell as maxwell
from dalembert.problems import moving_pivot as moving_pivot
from dalembert.problems import nonholonomic as nonholonomic
from dalembert.problems import paraboloid as paraboloid
from dalembert.problems import particle as particle
from dalembert.problems import pendulum as pendulum
from dalembert.problems import rigid_body as rigid_body
from dalembert.problems import series_springs as series_springs
from dalembert.problems import slider_crank as slider_crank
from dalembert.problems import spherical_pendulum as spherical_pendulum
from dalembert.problems import truck as truck
from dalembert.problems import wheelset as wheelset
from dalembert.problems.base import Problem, Published, problems

__all__ = ["Problem", "Published", "problems"]

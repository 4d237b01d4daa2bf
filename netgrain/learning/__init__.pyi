from .leave_one_out import LeaveOneOut as LeaveOneOut
from .targets import Targets as Targets

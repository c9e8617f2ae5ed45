"""Tasks: what the robot shall do, realised together with the contact forces that a contact law predicts.

    from idyn.tasks import FrameTask, PostureTask, TaskStack, predict_tasks

    trunk = FrameTask(frame="root_joint", position=[0.0, 0.0, 0.3], rotation=np.eye(3))
    posture = PostureTask(angles=robot.joint_angles(stance), level=1)
    answer = predict_tasks(robot, state, contacts, TaskStack(tasks=[trunk, posture]), law="coulomb", dt=0.001, guess=guess)
    answer.prediction.tau; answer["root_joint"].met; print(answer)

Motion      FrameTask, ComTask, AngularMomentumTask, PostureTask       `idyn.tasks.motion`
Contact     ForceTask, CenterOfPressureTask                            `idyn.tasks.forces`
Together    TaskStack with TaskLimits and contact modes (Mode)         `idyn.tasks.stack`
Limits      SelfCollision                                              `idyn.model.collisions`
Answer      TaskPrediction with a TaskOutcome for each task            `idyn.tasks.outcomes`

To read the code begin at `idyn.tasks.predict`.
"""

from idyn.model.collisions import SelfCollision
from idyn.tasks.forces import CenterOfPressureTask, ForceTask
from idyn.tasks.motion import AngularMomentumTask, ComTask, FrameTask, PostureTask
from idyn.tasks.outcomes import TaskOutcome, TaskPrediction
from idyn.tasks.predict import predict_tasks
from idyn.tasks.stack import Mode, TaskLimits, TaskStack

__all__ = [
    "AngularMomentumTask",
    "CenterOfPressureTask",
    "ComTask",
    "ForceTask",
    "FrameTask",
    "Mode",
    "PostureTask",
    "SelfCollision",
    "TaskLimits",
    "TaskOutcome",
    "TaskPrediction",
    "TaskStack",
    "predict_tasks",
]

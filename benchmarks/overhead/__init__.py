"""What jaxobs costs a training job, against none and against its peers, with a control that compares none with none."""

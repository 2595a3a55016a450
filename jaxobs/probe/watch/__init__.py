"""Functions that the user watches: what each call runs, when the device was done with it, and how long they are kept."""

"""Many slices made right by one frozen plan, and the workers that carry it out."""

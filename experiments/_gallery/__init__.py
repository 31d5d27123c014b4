"""Parts of the gallery: entries, joints, forces and their pictures."""

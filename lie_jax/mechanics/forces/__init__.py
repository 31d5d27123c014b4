"""Forces: wrenches on bodies, from loads, springs, controllers and motors."""

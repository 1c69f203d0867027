package boltstore

// placeOf knows nothing there.
func placeOf(string) (p Place, err error) { return p, nil }

package pgstore

// Waiting counts the ids that calls of this node wait for.
func (d *DB) Waiting() int {
	d.bell.mu.Lock()
	defer d.bell.mu.Unlock()
	return len(d.bell.waiting)
}

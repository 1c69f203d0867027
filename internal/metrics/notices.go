package metrics

// Notices counts the deliveries of notices in this process.
type Notices struct{}

// Delivered counts one try.
func (Notices) Delivered(destination, result string) {
	Process.Notices.WithLabelValues(destination, result).Inc()
}

// Waiting sets the number of notices that a destination has not got yet.
func (Notices) Waiting(destination string, n uint64) {
	Process.Waiting.WithLabelValues(destination).Set(float64(n))
}

package conns

import "time"

// Mark notes that all has been written that the client needs of an answer. More may follow, such as the
// terminator of its body: that need not be acknowledged. The Watch was made before the last length bytes were written.
func (w *Watch) Mark(length int) {
	if w != nil && w.of != nil {
		w.of.mark(length)
	}
}

// Hold waits until what was written before Mark is acknowledged, for the given time at most. A client that closes its
// connection there has received nothing more by then, which would break the connection off.
func (w *Watch) Hold(most time.Duration) {
	if w == nil || w.of == nil {
		return
	}
	until := time.Now().Add(most)
	for pause := firstLook; time.Now().Before(until); pause = min(2*pause, lastLook) {
		if _, all, lost := w.of.look(); all || lost {
			return
		}
		time.Sleep(pause)
	}
}

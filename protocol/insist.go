package protocol

import "time"

// InsistPause returns the time before the same payload goes once more to a seller that has answered it with a challenge:
// see [Protocol]. sent counts how often it has gone so before, from 0. more is false once that is enough.
func InsistPause(sent int) (pause time.Duration, more bool) {
	switch sent {
	case 0:
		return 200 * time.Millisecond, true
	case 1:
		return time.Second, true
	}
	return 0, false
}

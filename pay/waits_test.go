package pay

import (
	"fmt"
	"testing"
)

// Any client may register keys, and organizations. However many there are, calls of others can wait, and those
// of the operator's keys always.
func TestWaitsAreShared(t *testing.T) {
	t.Parallel()
	w := newWaits()
	var leaves []func()
	fill := func(keys int, make func(n int) Key) (joined int) {
		for n := range keys {
			k := make(n)
			for {
				_, leave, why := w.join(Approval{ID: fmt.Sprint(k.ID, joined), KeyID: k.ID}, k)
				if why != "" {
					break
				}
				joined++
				leaves = append(leaves, leave)
			}
		}
		return joined
	}
	registered := func(n int) Key { return Key{ID: fmt.Sprint("registered", n)} }
	organizations := func(n int) Key { return Key{ID: fmt.Sprint("claimed", n), OrganizationID: fmt.Sprint("org", n/10)} }
	operators := func(n int) Key { return Key{ID: fmt.Sprint("operator", n), Operator: true} }
	for round := range 2 {
		for _, c := range []struct{ got, want int }{
			{fill(40, registered), maxWaitsOfParty},
			{fill(10, organizations), maxWaitsOfParty},
			{fill(60, organizations), maxWaitsOfPlain - 2*maxWaitsOfParty},
			{fill(1, operators), maxWaitsOfKey},
			{fill(40, operators), maxWaits - maxWaitsOfPlain - maxWaitsOfKey},
		} {
			if c.got != c.want {
				t.Errorf("round %d: %d calls wait, want %d", round, c.got, c.want)
			}
		}
		for _, leave := range leaves {
			leave()
		}
		if leaves = nil; w.all != 0 || w.plain != 0 || len(w.ofKey) != 0 || len(w.ofParty) != 0 || len(w.on) != 0 {
			t.Errorf("left behind: %d, %d, %v, %v", w.all, w.plain, w.ofKey, w.ofParty)
		}
	}
}

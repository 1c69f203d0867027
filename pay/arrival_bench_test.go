package pay

import (
	"encoding/binary"
	"testing"
	"time"
)

// A call waits for its price while its key buys much else.
func BenchmarkArrivalsBesideACallThatWaits(b *testing.B) {
	p := &Payer{now: time.Now, calls: NewCalls()}
	p.Arrive("key")
	later := time.Now().Add(time.Hour)
	for i := range 50_000 {
		var id Hash
		binary.BigEndian.PutUint64(id[:], uint64(i))
		p.calls.arrivals.end("key", ending{identity: id, paymentID: "p", began: later, number: p.calls.arrivals.step()})
	}
	for b.Loop() {
		a := p.Arrive("key")
		a.repeated(Hash{1})
		a.Decided()
	}
}

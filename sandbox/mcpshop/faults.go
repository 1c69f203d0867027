package mcpshop

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/x402"
)

// Step says which messages a fault is for.
type Step string

// The steps.
const (
	Unpaid   Step = "unpaid"
	Paid     Step = "paid"
	Notified Step = "notified" // a notification, which is free
)

// Fault replaces the answer to a message.
type Fault struct {
	Name string
	On   Step
	// Moves: the money has moved when the fault shows. Delivers: the caller gets what it paid for all the same.
	Moves, Delivers bool
	do              func(v *visit, paid x402.Payload)
}

const (
	// hangTime bounds the time that a call stays without an answer.
	hangTime = 2 * time.Minute
	// huge is the size of a challenge beyond any bound, in bytes.
	huge = 16 << 20
)

// Meet has the first message of its step meet each fault, one after the other.
func (s *Shop) Meet(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = slices.Clone(faults)
}

// Always has every message of its step meet the fault.
func (s *Shop) Always(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always = slices.Clone(faults)
}

// Met lists the names of the faults that were met.
func (s *Shop) Met() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.met)
}

// due takes the fault that a message meets.
func (s *Shop) due(step Step) (f Fault, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := func(f Fault) bool { return f.On == step }
	if i := slices.IndexFunc(s.queue, of); i >= 0 {
		f, found = s.queue[i], true
		s.queue = slices.Delete(s.queue, i, i+1)
	} else if i := slices.IndexFunc(s.always, of); i >= 0 {
		f, found = s.always[i], true
	}
	if found {
		s.met = append(s.met, f.Name)
	}
	return f, found
}

// notified answers what needs no answer.
func (v *visit) notified() {
	if f, due := v.due(Notified); due {
		f.do(v, x402.Payload{})
		return
	}
	v.w.WriteHeader(http.StatusAccepted)
}

// FaultNamed returns the fault of a name. It panics without one, because names are in the code of tests.
func FaultNamed(name string) Fault {
	for _, f := range Faults() {
		if f.Name == name {
			return f
		}
	}
	panic("no fault " + name)
}

// Faults lists all faults.
func Faults() []Fault { return append(unpaidFaults(), paidFaults()...) }

func unpaidFaults() []Fault {
	return []Fault{
		{Name: "progress first", On: Unpaid, do: func(v *visit, _ x402.Payload) {
			v.streams = true
			for i := range 3 {
				v.progress(i)
			}
			v.challenge("Payment required")
		}},
		{Name: "no end", On: Unpaid, do: func(v *visit, _ x402.Payload) {
			v.begin()
			for began := time.Now(); time.Since(began) < hangTime && v.write(": wait\n\n"); {
				v.progress(1)
			}
		}},
		{Name: "twice", On: Unpaid, do: func(v *visit, _ x402.Payload) {
			v.event(v.challengeMessage(v.terms("Payment required")), false)
			v.event(v.challengeMessage(v.terms("Payment required")), true)
		}},
		{Name: "other id", On: Unpaid, do: func(v *visit, _ x402.Payload) {
			message := v.challengeMessage(v.terms("Payment required"))
			message["id"] = 987654
			v.reply(message)
		}},
		{Name: "in a batch", On: Unpaid, do: func(v *visit, _ x402.Payload) {
			batch := []object{v.challengeMessage(v.terms("Payment required"))}
			if v.streams {
				v.event(batch, true)
				return
			}
			honest.WriteJSON(v.w, http.StatusOK, batch)
		}},
		{Name: "huge", On: Unpaid, do: func(v *visit, _ x402.Payload) {
			terms := v.terms("Payment required")
			terms["padding"] = strings.Repeat("x", huge)
			v.demand(terms)
		}},
		{Name: "lying resource", On: Unpaid, do: func(v *visit, _ x402.Payload) { v.demand(v.lie("https://bank.test/transfer")) }},
		{Name: "other tool", On: Unpaid, do: func(v *visit, _ x402.Payload) { v.demand(v.lie("mcp://tool/send_money")) }},
		{Name: "session ends", On: Unpaid, do: func(v *visit, _ x402.Payload) {
			v.forget(v.session)
			v.challenge("Payment required")
		}},
		{Name: "compressed unasked", On: Unpaid, do: func(v *visit, _ x402.Payload) {
			v.w.gzip = true
			v.challenge("Payment required")
		}},
		{Name: "not an error", On: Unpaid, do: func(v *visit, _ x402.Payload) {
			// The result of a tool that tells of prices.
			v.result(object{"isError": false, "content": words("prices"), "structuredContent": v.terms("Payment required")})
		}},
		{Name: "challenge to a notification", On: Notified, do: func(v *visit, _ x402.Payload) {
			v.ask.Method, v.ask.Params.Name, v.ask.ID = "tools/call", Tool, []byte("1")
			honest.WriteJSON(v.w, http.StatusOK, v.challengeMessage(v.terms("Payment required")))
		}},
	}
}

// lie is terms that name another resource.
func (v *visit) lie(resource string) object {
	terms := v.terms("Payment required")
	if v.o.Dialect.version() == 1 {
		q := v.requirement()
		q.Resource = resource
		terms["accepts"] = []honest.Requirement{q}
		return terms
	}
	terms["resource"] = object{"url": resource, "description": "something else", "mimeType": "application/json"}
	return terms
}

func paidFaults() []Fault {
	faults := []Fault{
		{Name: "asks again", On: Paid, do: func(v *visit, _ x402.Payload) { v.challenge("Payment required") }},
		{Name: "settles, asks again", On: Paid, Moves: true, do: settled(func(v *visit, _ honest.SettleAnswer) {
			v.challenge("Payment required")
		})},
		{Name: "other form", On: Paid, Moves: true, Delivers: true, do: settled(func(v *visit, receipt honest.SettleAnswer) {
			v.streams = !v.streams
			v.deliver(receipt)
		})},
		{Name: "settles, cuts", On: Paid, Moves: true, do: settled(func(v *visit, receipt honest.SettleAnswer) {
			if !v.streams {
				v.reset()
				return
			}
			v.begin()
			v.events.add(encoded(v.goods(receipt)), true) // for a client that asks for it
		})},
		{Name: "settles, resets", On: Paid, Moves: true, do: settled(func(v *visit, receipt honest.SettleAnswer) {
			if v.streams {
				v.begin()
				v.events.add(encoded(v.goods(receipt)), true)
			}
			v.reset()
		})},
		{Name: "settles, hangs", On: Paid, Moves: true, do: settled(func(v *visit, _ honest.SettleAnswer) {
			select {
			case <-v.r.Context().Done():
			case <-time.After(hangTime):
			}
			v.reset()
		})},
		{Name: "settles, other id", On: Paid, Moves: true, do: settled(func(v *visit, receipt honest.SettleAnswer) {
			message := v.goods(receipt)
			message["id"] = 987654
			v.reply(message)
		})},
		{Name: "tool fails", On: Paid, do: func(v *visit, _ x402.Payload) {
			v.result(object{"isError": true, "content": words("the weather station is on fire")})
		}},
		{Name: "settles, tool fails", On: Paid, Moves: true, do: settled(func(v *visit, _ honest.SettleAnswer) {
			v.result(object{"isError": true, "content": words("the weather station is on fire")})
		})},
		{Name: "settles, error", On: Paid, Moves: true, do: settled(func(v *visit, _ honest.SettleAnswer) {
			v.error(codeInside, "the weather station is on fire")
		})},
	}
	for _, status := range []int{http.StatusBadRequest, http.StatusForbidden, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		name := http.StatusText(status)
		faults = append(faults,
			Fault{Name: name, On: Paid, do: func(v *visit, _ x402.Payload) { v.fail(status, codeServer, name) }},
			Fault{Name: "settles, " + name, On: Paid, Moves: true, do: settled(func(v *visit, _ honest.SettleAnswer) {
				v.fail(status, codeServer, name)
			})},
		)
	}
	return faults
}

// settled settles honestly before a fault shows.
func settled(do func(v *visit, receipt honest.SettleAnswer)) func(*visit, x402.Payload) {
	return func(v *visit, paid x402.Payload) {
		if receipt, ok := v.settle(paid); ok {
			do(v, receipt)
		}
	}
}

// reset closes the connection, like a failing network.
func (v *visit) reset() {
	conn, _, err := http.NewResponseController(v.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

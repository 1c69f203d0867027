package histories

import (
	"os"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
)

// op is an operation that begins once those before it in a list have returned, or with the one before it.
type op struct {
	in     any
	out    Outcome
	beside bool
}

func done(in any) op              { return op{in, Outcome{Said: Done}, false} }
func refused(in any) op           { return op{in, Outcome{Said: Refused}, false} }
func unknown(in any) op           { return op{in, Outcome{Said: Unknown}, false} }
func gets(n uint64, in any) op    { return op{in, Outcome{Said: Done, N: n}, false} }
func uses(id string, in any) op   { return op{in, Outcome{Said: Done, ID: id}, false} }
func waits(id string, in any) op  { return op{in, Outcome{Said: Waits, ID: id}, false} }
func denied(id string, in any) op { return op{in, Outcome{Said: Refused, ID: id}, false} }
func (o op) and() op              { return op{o.in, o.out, true} }

// Models find doctored histories, and explain the right ones.
func TestModels(t *testing.T) {
	t.Parallel()
	nine := Reserve{"a", 9}
	first, second, third := Acquire{"a", 0, 10}, Acquire{"b", 9, 19}, Acquire{"c", 15, 25}
	asked, agreed := waits("a", Pay{0, "a"}), done(Answer{0, "a", true})
	for name, c := range map[string]struct {
		model porcupine.Model
		right bool
		ops   []op
	}{
		"a budget is spent":                {Budget(10), true, []op{done(nine), refused(Reserve{"b", 5}), done(Reserve{"c", 1}), gets(10, Sum{})}},
		"a budget is overspent":            {Budget(10), false, []op{done(nine), done(Reserve{"b", 2}).and()}},
		"a refusal without a reason":       {Budget(10), false, []op{done(Reserve{"a", 5}), refused(Reserve{"b", 5})}},
		"a refusal before its reason":      {Budget(10), false, []op{refused(Reserve{"b", 5}), done(nine)}},
		"a refusal beside its reason":      {Budget(10), true, []op{refused(Reserve{"b", 5}), done(nine).and()}},
		"a reservation may be there":       {Budget(10), true, []op{unknown(nine), refused(Reserve{"b", 5}), done(Reserve{"c", 9})}},
		"a repeat takes nothing more":      {Budget(20), true, []op{unknown(nine), done(nine), gets(9, Sum{})}},
		"a repeat is counted twice":        {Budget(20), false, []op{unknown(nine), done(nine), gets(18, Sum{})}},
		"a release makes room":             {Budget(10), true, []op{done(nine), done(Release{"a", 9}), done(Reserve{"b", 9}), gets(9, Sum{})}},
		"a release makes room twice":       {Budget(10), false, []op{done(nine), unknown(Release{"a", 9}), done(Reserve{"b", 9}), done(Reserve{"c", 9})}},
		"a reservation is forgotten":       {Budget(10), false, []op{done(nine), gets(0, Sum{})}},
		"leases follow each other":         {Lease(1), true, []op{gets(2, first), refused(second), gets(3, third), refused(Renew{2, 30}), done(Holds{3})}},
		"two holders":                      {Lease(1), false, []op{gets(2, first), gets(3, second)}},
		"two holders at once":              {Lease(1), false, []op{gets(2, first), gets(3, second).and()}},
		"two holders of one fence":         {Lease(1), false, []op{gets(2, first), done(End{2}), gets(2, second)}},
		"a renewal is forgotten":           {Lease(1), false, []op{gets(2, first), done(Renew{2, 20}), gets(3, third)}},
		"a renewed lease lapses":           {Lease(1), false, []op{gets(2, first), done(Renew{2, 20}), done(Lapse{15}), refused(End{2})}},
		"a lost lease is extended":         {Lease(1), false, []op{gets(2, first), gets(3, third), done(Renew{2, 30})}},
		"a lost lease writes":              {Lease(1), false, []op{gets(2, first), gets(3, third), done(End{2})}},
		"a holder whose lease another has": {Lease(1), false, []op{gets(2, first), gets(3, third), done(Holds{2})}},
		"a lease may be taken and undone":  {Lease(1), true, []op{unknown(first), refused(second).and(), gets(3, second).and()}},
		"a lease is not undone twice":      {Lease(1), false, []op{unknown(first), gets(3, second), gets(4, second)}},
		"an approval is used":              {Approvals(), true, []op{asked, agreed, uses("a", Pay{0, "b"}), waits("c", Pay{0, "c"}), waits("c", Pay{0, "d"})}},
		"an approval is used twice":        {Approvals(), false, []op{asked, agreed, uses("a", Pay{0, "b"}), uses("a", Pay{0, "c"}).and()}},
		"a payment without an answer":      {Approvals(), false, []op{asked, uses("a", Pay{0, "b"})}},
		"an approval of other terms":       {Approvals(), false, []op{asked, agreed, uses("a", Pay{1, "b"})}},
		"a denied payment":                 {Approvals(), true, []op{asked, done(Answer{0, "a", false}), denied("a", Pay{0, "b"})}},
		"a denied payment is made":         {Approvals(), false, []op{asked, done(Answer{0, "a", false}), uses("a", Pay{0, "b"})}},
		"two answers":                      {Approvals(), false, []op{asked, agreed, done(Answer{0, "a", false}).and()}},
		"an answer may be there":           {Approvals(), true, []op{asked, unknown(Answer{0, "a", true}), uses("a", Pay{0, "b"})}},
	} {
		h, now := New(name, c.model), int64(0)
		for i, o := range c.ops {
			if !o.beside {
				now += 10
			}
			from := len(h.ops)
			h.Do(i, o.in, func() Outcome { return o.out })
			for n := range h.ops[from:] {
				h.ops[from+n].Call, h.ops[from+n].Return = now, now+5
			}
		}
		if result := porcupine.CheckOperationsTimeout(h.model, h.ops, limit); (result == porcupine.Ok) != c.right || result == porcupine.Unknown {
			t.Errorf("%s: %s\n%s", name, result, h)
		}
	}
}

// A failure is drawn.
func TestDraw(t *testing.T) {
	t.Parallel()
	h := New("one for two", Budget(1))
	for _, id := range []string{"a", "b"} {
		h.Do(0, Reserve{id, 1}, func() Outcome { return Outcome{Said: Done} })
	}
	path := h.draw(t)
	if page, err := os.ReadFile(path); err != nil || !strings.Contains(string(page), "{ID:b Amount:1}") {
		t.Errorf("the page %s has %d bytes, %v", path, len(page), err)
	}
}

// Package histories compares what concurrent callers of several nodes were told with small models of budgets,
// leases and approvals.
//
// A history fits its model if its operations have an order that keeps their times, and in which the model gives the
// same answers: it is linearizable. Porcupine looks for that order.
package histories

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// limit bounds the search for the order of one history.
const limit = 5 * time.Second

// Said holds the kind of an answer.
type Said string

// The kinds. An operation whose answer is Unknown may have happened between its call and its return, or not at all.
const (
	Unknown Said = "unknown"
	Done    Said = "done"
	Refused Said = "refused"
	Waits   Said = "waits" // for an approval
)

// Outcome holds all that the caller of an operation was told.
type Outcome struct {
	Said Said
	N    uint64 // fence of a lease that was taken, or the sum that was read
	ID   string // of the approval that a payment has used, waits for or was denied by
}

// History holds the operations on one budget, one lease, or the approvals of one key.
type History struct {
	name  string
	model porcupine.Model
	began time.Time

	mu  sync.Mutex
	ops []porcupine.Operation
}

// New begins a history. Readers of a failure find it by its name.
func New(name string, model porcupine.Model) *History {
	model.DescribeOperation = func(in, out any) string { return fmt.Sprintf("%T%+v: %+v", in, in, out) }
	return &History{name: name, model: model, began: time.Now()}
}

// Do makes an operation and notes it. If the answer is lost, call must not return while the operation can still happen,
// except for a Reserve and a Release.
func (h *History) Do(client int, in any, call func() Outcome) Outcome {
	op := porcupine.Operation{ClientId: client, Input: in, Call: int64(time.Since(h.began))}
	out := call()
	op.Output, op.Return = out, int64(time.Since(h.began))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
	if a, is := in.(Acquire); is && out.Said == Unknown {
		op.Input = undo{a.Owner}
		h.ops = append(h.ops, op)
	}
	return out
}

// Check fails the test for each history that no order explains, and draws it. The log counts the histories that could
// not be decided in time.
func Check(t testing.TB, list ...*History) {
	t.Helper()
	said, undecided := map[Said]int{}, 0
	for _, h := range list {
		for _, o := range h.ops {
			said[o.Output.(Outcome).Said]++
		}
		switch result := porcupine.CheckOperationsTimeout(h.model, h.ops, limit); result {
		case porcupine.Ok:
		case porcupine.Illegal:
			t.Errorf("%s: no order explains these operations, see %s\n%s", h.name, h.draw(t), h)
		case porcupine.Unknown:
			undecided++
			t.Logf("%s: not decided within %s: %d operations", h.name, limit, len(h.ops))
		}
	}
	t.Logf("%d histories, of which %d were not decided; answers: %v", len(list), undecided, said)
}

// draw writes a page that shows how many operations some order explains.
func (h *History) draw(t testing.TB) string {
	_, info := porcupine.CheckOperationsVerbose(h.model, h.ops, limit)
	path := filepath.Join(t.ArtifactDir(), strings.ReplaceAll(h.name, " ", "-")+".html")
	if err := porcupine.VisualizePath(h.model, info, path); err != nil {
		return err.Error()
	}
	return path
}

// String lists the operations by their calls.
func (h *History) String() (list string) {
	ops := slices.SortedFunc(slices.Values(h.ops), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for _, o := range ops {
		list += fmt.Sprintf("%12s to %12s, client %d: %s\n", time.Duration(o.Call), time.Duration(o.Return), o.ClientId, h.model.DescribeOperation(o.Input, o.Output))
	}
	return list
}

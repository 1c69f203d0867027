package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

// errand is something that a script in the browser's driver asks the test for: money, a payment, a plan.
type errand func(args json.RawMessage) (any, error)

// scriptTime bounds a script.
const scriptTime = 10 * time.Minute

// drive runs one of the scripts here, which drives a browser, and fails if it does. The script's output is the test's
// log. vars are names and values of its environment in turn.
func drive(t *testing.T, script string, errands map[string]errand, vars ...string) {
	t.Helper()
	chromium := needBrowser(t)
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		do, ok := errands[r.URL.Path[1:]]
		if !ok {
			http.Error(w, "no such errand", http.StatusNotFound)
			return
		}
		var args json.RawMessage
		err := json.NewDecoder(r.Body).Decode(&args)
		var result any
		if err == nil {
			result, err = do(args)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"result": result})
	}))
	t.Cleanup(control.Close)
	out := *pictures
	if out == "" {
		out = t.ArtifactDir()
	}
	take := "TAKE=" // only of what fails, which is where artifacts go
	if *pictures != "" {
		take = "TAKE=all"
	}
	settings := []string{take, "CHROMIUM=" + chromium, "CONTROL=" + control.URL, "PICTURES=" + out, "NODE_NO_WARNINGS=1"}
	for i := 0; i < len(vars); i += 2 {
		settings = append(settings, vars[i]+"="+vars[i+1])
	}
	cmd := exec.Command("node", script)
	cmd.Env = process.Environment(settings...)
	c := process.Start(t, cmd, func(line string) { t.Log(line) })
	if !c.EndsWithin(scriptTime) {
		c.Kill()
		t.Fatalf("%s is not done after %s\n%s", script, scriptTime, c.Log.End())
	}
	if c.Err != nil {
		t.Fatalf("%s: %v\n%s", script, c.Err, c.Log.End())
	}
}

// do makes an errand of a function with arguments of a type.
func do[A any](f func(A) (any, error)) errand {
	return func(raw json.RawMessage) (any, error) {
		var args A
		if err := json.Unmarshal(raw, &args); err != nil {
			return nil, fmt.Errorf("%s: %w", raw, err)
		}
		return f(args)
	}
}

// errands returns the errands of a house.
func (h *house) errands() map[string]errand {
	seller := h.officialSeller()
	return map[string]errand{
		"fund": do(func(a struct {
			Address string
			Dollars uint64
		},
		) (any, error) {
			return nil, h.fund(a.Address, a.Dollars)
		}),
		"newKey": do(func(a struct{ Label string }) (any, error) { return h.newKey(a.Label) }),
		"buy":    do(func(a struct{ Key, Task string }) (any, error) { return seller, h.buy(a.Key, a.Task, seller) }),
		"settle": do(func(a struct{ Key string }) (any, error) { return nil, h.settle(a.Key) }),
	}
}

package dashboard

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/testing/needed"
	"github.com/purserpay/purser/x402"
)

// agentAnswer holds the answer to an agent.
type agentAnswer struct {
	Status   int    `json:"status"`
	Declined string `json:"declined"`
	Payment  string `json:"payment"`
	Approval string `json:"approval"`
	Body     string `json:"body"`
}

// asks runs curl behind the proxy as an agent would. The answer comes once the request is answered.
func (h *house) asks(key, task, address string) <-chan agentAnswer {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "curl", "-sS", "-i", "--max-time", "100", "-x", fmt.Sprintf("http://%s:%s@%s", key, task, h.purser.Host()), address)
	cmd.Env = process.Environment()
	done := make(chan agentAnswer, 1)
	go func() {
		out, err := cmd.Output()
		res, readErr := http.ReadResponse(bufio.NewReader(strings.NewReader(string(out))), nil)
		if err != nil || readErr != nil {
			done <- agentAnswer{Body: fmt.Sprint(err, readErr, string(out))}
			return
		}
		defer res.Body.Close()
		_, body, _ := strings.Cut(string(out), "\r\n\r\n")
		done <- agentAnswer{res.StatusCode, res.Header.Get("Purser-Declined"), res.Header.Get("Purser-Payment"), res.Header.Get("Purser-Approval"), body}
	}()
	return done
}

// notice is the part of a webhook's payload that the test reads.
type notice struct{ Approval, Approve string }

// tells restarts purser with a public address and a webhook, and returns what the webhook gets.
func (h *house) tells() <-chan notice {
	h.t.Helper()
	told := make(chan notice, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var got struct{ Data notice }
		if json.NewDecoder(r.Body).Decode(&got) == nil {
			told <- got.Data
		}
	}))
	h.t.Cleanup(hook.Close)
	if err := h.purser.Stop(syscall.SIGTERM); err != nil {
		h.t.Fatal(err)
	}
	h.purser.Settings = append(h.purser.Settings, "PURSER_PUBLIC_URL="+h.url(""), "PURSER_WEBHOOKS="+hook.URL, "PURSER_WEBHOOK_KINDS=approval-needed",
		"PURSER_ALLOW_ADDRESSES=127.0.0.0/8")
	h.startPurser()
	return told
}

// TestApprovals: a request of curl waits above the threshold of its key. A person opens Approvals and answers, with the
// keyboard alone. Approved, curl gets its bytes and one transfer is made; denied, it reads why. See approvals.mjs.
func TestApprovals(t *testing.T) {
	needBrowser(t)
	needed.Program(t, "Debian: apt-get install curl", "curl")
	h := newHouse(t, "PURSER_APPROVAL_WAIT=60s")
	told := h.tells()
	ada := h.signIn("ada")
	agent, err := h.newKey("research agent")
	if err != nil {
		t.Fatal(err)
	}
	ada.post("/dashboard/keys/link", "key", agent.Key).is(t, 200, "Key linked")
	h.purser.Must(h.t, "limits", "research agent", "--require-approval-above", "0.001")
	wallet, err := x402.ParseAddress(agent.Wallet)
	if err != nil {
		t.Fatal(err)
	}
	const patience = time.Minute
	token := ""
	waiting := map[string]<-chan agentAnswer{}
	drive(t, "approvals.mjs", map[string]errand{
		"ask": do(func(a struct{ Path string }) (any, error) {
			waiting[a.Path] = h.asks(agent.Key, "nightly", h.world.SellerURL()+a.Path)
			return h.world.PayTo.String(), nil
		}),
		"answer": do(func(a struct{ Path string }) (any, error) { return <-waiting[a.Path], nil }),
		"balance": do(func(struct{}) (any, error) {
			left, err := h.world.Balance(t.Context(), wallet)
			return left.String(), err
		}),
		// link returns the link in the notice of an approval.
		"link": do(func(a struct{ ID string }) (any, error) {
			late := time.After(patience)
			for {
				select {
				case n := <-told:
					if n.Approval == a.ID {
						_, token, _ = strings.Cut(n.Approve, "#")
						return n.Approve, nil
					}
				case <-late:
					return nil, errors.New("no notice of the approval came")
				}
			}
		}),
		"deny": do(func(a struct{ ID string }) (any, error) {
			return h.purser.Must(h.t, "approvals", "deny", a.ID, "--reason", "the operator was faster"), nil
		}),
	}, "BASE", h.url(""))
	if said := h.purser.Output.String(); strings.Contains(said, "pk_") || token != "" && strings.Contains(said, token) {
		t.Error("a key, or the token of a link, is in the log")
	}
}

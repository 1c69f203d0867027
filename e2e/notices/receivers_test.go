package notices

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/notices"
)

// Receivers that are slow, down, faulty, redirect, are at a private address or refuse mail hold up no other, and
// purser says what is wrong with each. A notice that fails for a while is delivered later.
func TestBadReceivers(t *testing.T) {
	t.Parallel()
	chat, post := startChat(t), startMail(t)
	chat.fail(slackPath, http.StatusInternalServerError, http.StatusInternalServerError)
	var trapped atomic.Int32
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { trapped.Add(1) }))
	t.Cleanup(trap.Close)
	redirecting := httptest.NewServer(http.RedirectHandler(trap.URL, http.StatusTemporaryRedirect))
	t.Cleanup(redirecting.Close)
	stuck := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stuck }))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(stuck) })
	down, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := down.Close(); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, append(post.settings(stranger), "PURSER_WEBHOOKS="+strings.Join([]string{
		slow.URL + "/slow-secret", "http://" + down.Addr().String() + "/down-secret", redirecting.URL + "/redirect-secret",
		"http://10.11.12.13/private-secret", "slack+" + chat.URL + slackPath, chat.URL + ownPath,
	}, ","))...)
	w.start()
	w.purser.Must(w.T, "pause", "--reason", "a test")

	// The good one has it at once, and each of the others a fault that is shown.
	want := []string{
		"no answer in 10s", "connection refused", "follows no redirects", "deny-private", "500 Internal Server Error", "", "550",
	}
	var states []notices.State
	process.Eventually(t, patience, func() string {
		var all adminapi.Webhooks
		w.admin("GET", "/purser/webhooks", nil, &all)
		states = all.Webhooks
		if len(states) != len(want) {
			t.Fatalf("%d destinations", len(states))
		}
		for i, s := range states {
			if want[i] == "" && s.Delivered == nil || !strings.Contains(s.Error, want[i]) {
				return fmt.Sprintf("%s: %+v", s.Name, s)
			}
		}
		return ""
	})
	good := states[5]
	if n := len(chat.got(ownPath)); n != 1 || good.Delivered == nil || good.Failing() || good.Delivered.Sub(w.events()[0].At) > 5*time.Second {
		t.Errorf("%d messages at the good one: %+v", n, good)
	}
	status, err := w.purser.Command(w.T, "status") // it fails, because everything is paused
	if err == nil || !strings.Contains(status, "Notices do not arrive") {
		t.Errorf("status says nothing of it: %v, %s", err, status)
	}
	for _, said := range []string{w.purser.Must(w.T, "webhooks"), status, w.purser.Output.End()} {
		if strings.Contains(said, "-secret") {
			t.Errorf("an address is told: %s", said)
		}
	}

	// Faults that pass, and the mail server that refuses for good.
	process.Eventually(t, patience, func() string {
		w.clock.Forward(t, time.Minute)
		var all adminapi.Webhooks
		w.admin("GET", "/purser/webhooks", nil, &all)
		states = all.Webhooks
		switch n := len(chat.got(slackPath)); {
		case n != 1:
			return fmt.Sprintf("%d messages behind two faults", n)
		case states[6].GivenUp != 1:
			return fmt.Sprintf("mail is not given up: %+v", states[6])
		}
		return ""
	})
	if s := states[2]; s.GivenUp != 1 || trapped.Load() != 0 {
		t.Errorf("the redirect was followed %d times: %+v", trapped.Load(), s)
	}
	if s := states[1]; s.GivenUp != 0 || s.Waiting != 1 {
		t.Errorf("one that is down was given up: %+v", s)
	}
	if list, err := post.got(); err != nil || len(list) != 0 {
		t.Errorf("mail %v, %v", list, err)
	}

	// Replayed, under its id.
	w.purser.Must(w.T, "webhooks", "replay", good.Name, "--from", "1")
	process.Eventually(t, patience, func() string {
		if list := chat.got(ownPath); len(list) == 2 && list[0].id == list[1].id {
			return ""
		}
		return "not replayed"
	})
}

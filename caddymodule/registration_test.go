package caddymodule

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/cli/clitest"
)

// registered loads a site and returns what `purser status` prints of it, and what was logged.
func registered(t *testing.T, s *site) (printed, logged string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	s.global = "log told {\n\t\toutput file " + log + "\n\t\tinclude purser\n\t}"
	socket, _ := adminSite(t, s)
	o := clitest.Run(t, nil, "status", "--admin", "unix/"+socket)
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return o.Stdout, string(text)
}

const closedRegistration = "Registration is closed"

func TestRegistrationOff(t *testing.T) {
	for name, change := range map[string]func(*site){
		"by the Caddyfile": func(s *site) { s.app = "registration off" },
		"by the variable":  func(*site) { t.Setenv("PURSER_REGISTRATION", "off") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PURSER_INTERNAL_SECRET", "the secret of the tests")
			s := newSite(t)
			s.bind = "0.0.0.0"
			change(s)
			printed, logged := registered(t, s)
			if !strings.Contains(printed, "registration") || strings.Contains(printed, "open to everybody") || strings.Contains(logged, "registration is open") {
				t.Errorf("printed %s, logged %s", printed, logged)
			}
			if got := mustCall(t, 403, "POST", s.url()+"/api-keys", "", `{"label":"mine"}`)["error"]; got != closedRegistration {
				t.Errorf("answered %v", got)
			}
			mustCall(t, 200, "GET", s.url()+"/health", "", "")
			// The operator makes keys all the same.
			answer := httptest.NewRecorder()
			r := httptest.NewRequest("POST", "http://localhost/purser/keys", strings.NewReader(`{"label":"the operator's"}`))
			r.Header.Set("Content-Type", "application/json")
			adminHandler().Mux().ServeHTTP(answer, r)
			var made struct{ Key string }
			if err := json.Unmarshal(answer.Body.Bytes(), &made); err != nil || made.Key == "" {
				t.Fatalf("%s, %v", answer.Body, err)
			}
			mustCall(t, 200, "GET", s.url()+"/wallets/me", made.Key, "")
		})
	}
}

func TestRegistrationOpen(t *testing.T) {
	s := newSite(t)
	printed, logged := registered(t, s)
	if !strings.Contains(printed, "open\n") || strings.Contains(logged, "registration is open") {
		t.Errorf("on loopback: printed %s, logged %s", printed, logged)
	}
	newKey(t, s.url())

	s = newSite(t)
	s.bind = "0.0.0.0"
	printed, logged = registered(t, s)
	if !strings.Contains(printed, "open to everybody who reaches 0.0.0.0:") || !strings.Contains(printed, "PURSER_REGISTRATION=off") ||
		!strings.Contains(logged, "registration is open to everybody") || !strings.Contains(logged, "0.0.0.0:") {
		t.Errorf("elsewhere: printed %s, logged %s", printed, logged)
	}
	newKey(t, s.url())
}

// A key whose payments fail gets as many as the configuration says.
func TestFailureBounds(t *testing.T) {
	s := newSite(t)
	s.app = "registration open\n\t\tmax_concurrent off\n\t\tmax_queued 5\n\t\tmax_wait 2s\n" +
		"\t\tfailures_per_minute off\n\t\tfailures_per_day 3\n\t\tfacilitator http {\n\t\t\turl http://127.0.0.1:9\n\t\t}"
	mustLoad(t, s.caddyfile())
	key := newKey(t, s.url())
	buy := func(want, n int) map[string]any {
		return mustCall(t, want, "POST", s.url()+"/v1/pay", key, payBody(5, fmt.Sprintf("https://api.example.com/%d", n)))
	}
	for n := range 3 { // no facilitator answers: void at once
		buy(402, n)
	}
	a := buy(429, 3)
	if a["error"] != "Too many requests" || a["upgradeUrl"] == "" {
		t.Errorf("answered %v", a)
	}
}

// A deployment for others than the user of one machine makes no keys for strangers.
func TestDeploymentsCloseRegistration(t *testing.T) {
	t.Parallel()
	for file, line := range map[string]string{
		"compose.yaml":            `PURSER_REGISTRATION: "${PURSER_REGISTRATION:-off}"`,
		"kubernetes/shared.yaml":  `{name: PURSER_REGISTRATION, value: "off"}`,
		"kubernetes/sidecar.yaml": `{name: PURSER_REGISTRATION, value: "off"}`,
		"helm/purser/values.yaml": `PURSER_REGISTRATION: "off"`,
		"systemd/purser.service":  "Environment=PURSER_REGISTRATION=off",
	} {
		text, err := os.ReadFile(filepath.Join("../deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), line) {
			t.Errorf("deploy/%s has no %s", file, line)
		}
	}
}

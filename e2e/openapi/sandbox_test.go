package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

// sandbox is a running purser-sandbox.
type sandbox struct {
	*process.Sandbox
	t *testing.T
}

func startSandbox(t *testing.T) *sandbox {
	t.Helper()
	return &sandbox{process.StartSandbox(t, nil, nil), t}
}

// liftKeyRate lets one address make as many keys as it likes: the bound of 60 a minute is tested
// elsewhere, and here would hide what lies behind it.
func (s *sandbox) liftKeyRate() {
	s.t.Helper()
	admin := s.AdminClient()
	const handlers = "http://admin/config/apps/http/servers/purser/routes/0/handle"
	var list []struct{ Handler string }
	s.request(admin, http.MethodGet, handlers, nil, &list)
	for i, h := range list {
		if h.Handler == "purser_api" {
			s.request(admin, http.MethodPost, fmt.Sprintf("%s/%d/key_rate", handlers, i), -1, nil)
			return
		}
	}
	s.t.Fatalf("no purser_api among %+v", list)
}

// call makes one call of the API with the sandbox's key and reads its answer.
func (s *sandbox) call(method, path string, body, answer any) {
	s.t.Helper()
	s.request(&http.Client{Timeout: time.Minute}, method, s.API+path, body, answer)
}

func (s *sandbox) request(by *http.Client, method, url string, body, answer any) {
	s.t.Helper()
	var sent []byte
	var err error
	if body != nil {
		if sent, err = json.Marshal(body); err != nil {
			s.t.Fatal(err)
		}
	}
	got, err := process.Ask(s.t.Context(), by, method, url, string(sent), "Content-Type", "application/json", "X-Api-Key", s.Key)
	if err == nil && got.Status >= http.StatusBadRequest {
		err = fmt.Errorf("%d %s", got.Status, got.Body)
	}
	if err == nil && answer != nil {
		err = json.Unmarshal([]byte(got.Body), answer)
	}
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, url, err)
	}
}

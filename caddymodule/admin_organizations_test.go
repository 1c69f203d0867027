package caddymodule

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli/clitest"
)

// Organizations are listed with what they use, moved to plans, prepared for a person, and given keys.
func TestOrganizations(t *testing.T) {
	s := newSite(t)
	s.app = "plan free {\n\t\t\tkeys 2\n\t\t}"
	socket, _ := adminSite(t, s)
	admin := "--admin=unix/" + socket
	call := func(method, path string, body, answer any) string {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		var problem struct{ Error string }
		code, got := adminSend(t, socket, method, "/purser/organizations"+path, "application/json", string(text))
		if code >= 300 {
			answer = &problem
		}
		if answer != nil {
			if err := json.Unmarshal([]byte(got), answer); err != nil {
				t.Fatalf("%v: %s", err, got)
			}
		}
		return problem.Error
	}
	who := adminapi.NewAccount{Issuer: "https://i.example", Subject: "1", Name: "Ada", Email: "ada@example.com"}
	var first, again adminapi.PreparedAccount
	if e := call(http.MethodPost, "", who, &first) + call(http.MethodPost, "", who, &again); e != "" || first.Account != again.Account || first.Organization.ID == "" {
		t.Fatalf("%+v, %+v: %s", first, again, e)
	}
	org := "/" + first.Organization.ID
	key := map[string]string{"key": newKey(t, s.url())}
	if e := call(http.MethodPost, org+"/keys", key, nil); e != "" {
		t.Error(e)
	}
	full := map[string]string{"key": newKey(t, s.url())}
	for _, w := range []struct {
		path string
		body any
		want string
	}{
		{org + "/keys", key, "already"},
		{"/org_none/keys", full, "organization not found"},
		{org + "/keys", map[string]string{"key": "pk_nobody_has_this"}, "key not found"},
		{org + "/keys", full, "limit reached"},
		{"", adminapi.NewAccount{Subject: "1"}, "iss"},
		{"", map[string]string{"sub": "1"}, "unknown field"},
	} {
		if e := call(http.MethodPost, w.path, w.body, nil); !strings.Contains(e, w.want) {
			t.Errorf("POST %s: %q, want %q", w.path, e, w.want)
		}
	}
	o := clitest.Run(t, nil, "organizations", admin)
	if o.Status != 0 || !strings.Contains(o.Stdout, first.Organization.ID) || !strings.Contains(o.Stdout, "2 of 2") || !strings.Contains(o.Stdout, "free") {
		t.Errorf("%d %s %s", o.Status, o.Stdout, o.Stderr)
	}
	o = clitest.Run(t, nil, "organizations", "plan", first.Organization.ID, "Developer", admin)
	if o.Status != 0 || !strings.Contains(o.Stdout, "developer") || !strings.Contains(o.Stdout, "2 of 10") {
		t.Errorf("%d %s %s", o.Status, o.Stdout, o.Stderr)
	}
	if e := call(http.MethodPost, org+"/keys", full, nil); e != "" {
		t.Error(e)
	}
	o = clitest.Run(t, nil, "organizations", admin, "--json", "--limit", "1")
	if page := decode[adminapi.Organizations](t, o.Stdout); len(page.Organizations) != 1 || page.Organizations[0].Keys.Used != 3 || page.Next != "" {
		t.Errorf("%+v", page)
	}
	for args, want := range map[string]string{
		"plan org_none agency":                 "organization not found",
		"plan " + first.Organization.ID + " x": "unknown plan",
		"--limit 0":                            "--limit",
		"x":                                    "takes no arguments but plan",
	} {
		o := clitest.Run(t, nil, append(append([]string{"organizations"}, strings.Fields(args)...), admin)...)
		if o.Status == 0 || !strings.Contains(o.Stderr, want) {
			t.Errorf("%s: %d %s", args, o.Status, o.Stderr)
		}
	}
}

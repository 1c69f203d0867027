package caddymodule

import (
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
)

// Organizations are listed with what they use, moved to plans, prepared for somebody, and given keys.
func TestOrganizations(t *testing.T) {
	s := newSite(t)
	s.app = "plan free {\n\t\t\tkeys 2\n\t\t}"
	socket, _ := adminSite(t, s)
	admin := "--admin=unix/" + socket
	c, err := newAdminClient("unix/" + socket)
	if err != nil {
		t.Fatal(err)
	}
	call := func(method, path string, body, answer any) string {
		t.Helper()
		if err := c.call(t.Context(), method, "/purser/organizations"+path, body, answer); err != nil {
			return err.Error()
		}
		return ""
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
	o := command(t, nil, "organizations", admin)
	if o.status() != 0 || !strings.Contains(o.stdout, first.Organization.ID) || !strings.Contains(o.stdout, "2 of 2") || !strings.Contains(o.stdout, "free") {
		t.Errorf("%d %s %s", o.status(), o.stdout, o.stderr)
	}
	o = command(t, nil, "organizations", "plan", first.Organization.ID, "Developer", admin)
	if o.status() != 0 || !strings.Contains(o.stdout, "developer") || !strings.Contains(o.stdout, "2 of 10") {
		t.Errorf("%d %s %s", o.status(), o.stdout, o.stderr)
	}
	if e := call(http.MethodPost, org+"/keys", full, nil); e != "" {
		t.Error(e)
	}
	o = command(t, nil, "organizations", admin, "--json", "--limit", "1")
	if page := decode[adminapi.Organizations](t, o.stdout); len(page.Organizations) != 1 || page.Organizations[0].Keys.Used != 3 || page.Next != "" {
		t.Errorf("%+v", page)
	}
	for args, want := range map[string]string{
		"plan org_none agency":                 "organization not found",
		"plan " + first.Organization.ID + " x": "unknown plan",
		"--limit 0":                            "--limit",
		"x":                                    "takes no arguments but plan",
	} {
		o := command(t, nil, append(append([]string{"organizations"}, strings.Fields(args)...), admin)...)
		if o.status() == 0 || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: %d %s", args, o.status(), o.stderr)
		}
	}
}

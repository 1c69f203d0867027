package notices

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/purserpay/purser/e2e/internal/process"
)

// The lines of docs/notices.md take what is signed, and nothing else.
func TestVerificationInTheDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(process.Root(), "docs", "notices.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ program, fence, file, ask string }{
		{"python3", "python", "check.py", `
import json, sys
q = json.load(sys.stdin)
print(json.dumps(bool(verify(q["secret"], q["headers"], q["body"].encode()))))
`},
		{"node", "js", "check.mjs", `
import { readFileSync } from "node:fs";
const q = JSON.parse(readFileSync(0, "utf8"));
console.log(verify(q.secret, q.headers, Buffer.from(q.body)));
`},
	} {
		t.Run(c.program, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.program); err != nil {
				if os.Getenv("CI") == "true" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			_, code, found := strings.Cut(string(text), "```"+c.fence+"\n")
			code, _, ended := strings.Cut(code, "```\n")
			file := filepath.Join(t.TempDir(), c.file)
			if err := os.WriteFile(file, []byte(code+c.ask), 0o600); err != nil || !found || !ended {
				t.Fatal(err, found, ended)
			}
			for name, q := range questions(t) {
				asked, err := json.Marshal(q)
				if err != nil {
					t.Fatal(err)
				}
				run := exec.CommandContext(t.Context(), c.program, file)
				run.Stdin = bytes.NewReader(asked)
				said, err := run.CombinedOutput()
				if want := strings.HasPrefix(name, "good"); err != nil || strings.TrimSpace(string(said)) != map[bool]string{true: "true", false: "false"}[want] {
					t.Errorf("%s: %v %s", name, err, said)
				}
			}
		})
	}
}

type question struct {
	Secret  string            `json:"secret"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// questions returns posts that are to be taken, and others.
func questions(t *testing.T) map[string]question {
	t.Helper()
	const other = "whsec_HxwdHhscGRobFhcYGRQVFhcSExQVEBESEw4PEBE="
	post := func(at time.Time, secrets ...string) question {
		t.Helper()
		q := question{Secret: secret, Body: `{"type":"paused","data":{"text":"ü"}}`, Headers: map[string]string{"webhook-id": "019a", "webhook-timestamp": ""}}
		var all []string
		for _, s := range secrets {
			signer, err := standardwebhooks.NewWebhook(s)
			if err != nil {
				t.Fatal(err)
			}
			one, err := signer.Sign("019a", at, []byte(q.Body))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, one)
		}
		stamp, err := json.Marshal(at.Unix())
		if err != nil {
			t.Fatal(err)
		}
		q.Headers["webhook-timestamp"], q.Headers["webhook-signature"] = string(stamp), strings.Join(all, " ")
		return q
	}
	now := time.Now()
	changed, moved := post(now, secret), post(now, secret)
	changed.Body += " "
	moved.Headers["webhook-id"] = "019b"
	return map[string]question{
		"good": post(now, secret), "good with two signatures": post(now, other, secret),
		"another secret": post(now, other), "another body": changed, "another id": moved, "an old one": post(now.Add(-time.Hour), secret),
	}
}

package setting

import (
	"cmp"
	"os"

	"github.com/purserpay/purser/internal/environment"
	"github.com/purserpay/purser/pay"
)

// IsReference refuses a secret itself, which clients of GET /config/ would see.
func (o Option) IsReference(given string) error {
	if given == "" || environment.Placeholder(given) {
		return nil
	}
	return o.Errorf("write a reference like {env.%s}; a secret itself would be visible in the configuration",
		cmp.Or(o.Variable, "NAME"))
}

// Secret is a reference whose value can also come from a file (`…_file`, `…_FILE`).
func (o Option) Secret(given, givenFile string) (string, error) {
	return o.Contents(o.SecretOrFile(given, givenFile))
}

// Contents is the value, or what the file at a path holds.
func (o Option) Contents(v, path string, err error) (string, error) {
	if err != nil || path == "" {
		return v, err
	}
	return o.File().Read(path)
}

// APIKey is a secret that is an API key, or unset.
func (o Option) APIKey(given, givenFile string) (string, error) {
	v, err := o.Secret(given, givenFile)
	if err == nil && v != "" && !pay.ValidSecret(v) {
		err = o.Errorf("not an API key: 8 to 256 characters of A-Z a-z 0-9 . _ ~ + / = -")
	}
	return v, err
}

// SecretOrFile is a secret's value, or the path of its file, or neither.
func (o Option) SecretOrFile(given, givenFile string) (v, path string, err error) {
	if err = o.IsReference(given); err != nil {
		return "", "", err
	}
	return o.ValueOrFile(given, givenFile)
}

// ValueOrFile is a value, that of a reference to a secret, or the path of the file that holds it, or neither.
func (o Option) ValueOrFile(given, givenFile string) (v, path string, err error) {
	err = cmp.Or(Set(&v, o.Value, given), Set(&path, o.File().Value, givenFile))
	if err == nil && v != "" && path != "" {
		err = o.Errorf("%s is set as well: keep one", cmp.Or(o.File().Variable, o.File().Name))
	}
	if err == nil {
		v, err = environment.Secret(os.Getenv, v)
		err = o.Wrapped(err)
	}
	return v, path, err
}

// File is the option that names a secret's file.
func (o Option) File() Option {
	f := Option{Name: o.Name + "_file"}
	if o.Variable != "" {
		f.Variable = o.Variable + "_FILE"
	}
	return f
}

// Read returns the contents of a secret's file. Its errors never contain any of them.
func (o Option) Read(path string) (string, error) {
	v, err := environment.ReadSecret(path)
	return v, o.Wrapped(err)
}

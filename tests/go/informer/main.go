// Command informer runs client-go's typed clients (which send protobuf), shared
// informers (WatchList by default) and leader election against the server that
// $KUBECONFIG names. It needs no controllers there: only the API.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"setpoint.test/clients/kit"
)

var (
	c      kit.Checks
	create = metav1.CreateOptions{}
	get    = metav1.GetOptions{}
	update = metav1.UpdateOptions{}
	patch  = metav1.PatchOptions{}
	del    = metav1.DeleteOptions{}
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()

	cfg, err := kit.Config()
	c.Must("read the kubeconfig", err)
	var traffic kit.Traffic
	cs := kubernetes.NewForConfigOrDie(traffic.Wrap(cfg))

	version, err := cs.Discovery().ServerVersion()
	c.Must("server version", err)
	fmt.Println("server", version.GitVersion)

	ns, cleanUp, err := kit.Namespace(ctx, cs, "go-informer-")
	c.Must("create a namespace", err)

	configMaps(ctx, cs, ns)
	deployments(ctx, cs, ns)
	leases(ctx, cs, ns)
	identity(ctx, cfg, cs, ns)
	informer(ctx, cfg, cs, ns)
	election(ctx, cs, ns)
	traffic.CheckTypes(&c)

	cleanUp()
	c.Finish()
}

// configMaps: create, get, update, conflict, the patches, lists in pages, delete.
func configMaps(ctx context.Context, cs kubernetes.Interface, ns string) {
	cms := cs.CoreV1().ConfigMaps(ns)

	cm, err := cms.Create(ctx, configMap("cm", "a", "1"), create)
	if !c.OK("configmap: create", err) {
		return
	}
	c.True("configmap: uid and resourceVersion are set", cm.UID != "" && cm.ResourceVersion != "", cm)
	_, err = cms.Create(ctx, configMap("cm", "a", "1"), create)
	c.True("configmap: creating it again says AlreadyExists", apierrors.IsAlreadyExists(err), err)

	got, err := cms.Get(ctx, "cm", get)
	c.True("configmap: get", err == nil && got.Data["a"] == "1" && got.UID == cm.UID, err, got)

	got.Data["a"] = "2"
	updated, err := cms.Update(ctx, got, update)
	c.True("configmap: update", err == nil && updated.Data["a"] == "2" &&
		updated.ResourceVersion != cm.ResourceVersion, err, updated)
	_, err = cms.Update(ctx, got, update) // got has the older resourceVersion
	c.True("configmap: updating an old version says Conflict", apierrors.IsConflict(err), err)

	got, err = cms.Patch(ctx, "cm", types.MergePatchType, []byte(`{"data":{"b":"3"}}`), patch)
	c.True("configmap: merge patch", err == nil && got.Data["a"] == "2" && got.Data["b"] == "3", err, got)
	got, err = cms.Patch(ctx, "cm", types.JSONPatchType, []byte(`[{"op":"remove","path":"/data/b"}]`), patch)
	c.True("configmap: JSON patch", err == nil && len(got.Data) == 1, err, got)

	for i := range 5 {
		page := configMap(fmt.Sprintf("page-%d", i), "i", fmt.Sprint(i))
		page.Labels = map[string]string{"set": "pages"}
		_, err = cms.Create(ctx, page, create)
		c.OK("configmap: create "+page.Name, err)
	}
	var names []string
	opts := metav1.ListOptions{LabelSelector: "set=pages", Limit: 2}
	for {
		list, err := cms.List(ctx, opts)
		if !c.OK("configmap: list a page", err) {
			break
		}
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		if opts.Continue = list.Continue; opts.Continue == "" {
			break
		}
	}
	c.True("configmap: the pages hold each object once, in order",
		strings.Join(names, " ") == "page-0 page-1 page-2 page-3 page-4", names)

	c.OK("configmap: delete a collection",
		cms.DeleteCollection(ctx, del, metav1.ListOptions{LabelSelector: "set=pages"}))
	list, err := cms.List(ctx, metav1.ListOptions{LabelSelector: "set=pages"})
	c.True("configmap: the collection is gone", err == nil && len(list.Items) == 0, err, list)
	c.OK("configmap: delete", cms.Delete(ctx, "cm", del))
	_, err = cms.Get(ctx, "cm", get)
	c.True("configmap: then it is NotFound", apierrors.IsNotFound(err), err)
}

// deployments: defaults, validation, strategic merge patch, server-side apply.
func deployments(ctx context.Context, cs kubernetes.Interface, ns string) {
	deps := cs.AppsV1().Deployments(ns)
	web := map[string]string{"app": "web"}

	bad := deployment("web", web)
	bad.Spec.Selector.MatchLabels = map[string]string{"app": "other"}
	_, err := deps.Create(ctx, bad, create)
	c.True("deployment: a selector that misses the template is Invalid", apierrors.IsInvalid(err), err)

	d, err := deps.Create(ctx, deployment("web", web), create)
	if !c.OK("deployment: create", err) {
		return
	}
	c.True("deployment: defaults are filled in", ptr.Deref(d.Spec.Replicas, 0) == 1 &&
		d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType &&
		d.Spec.Template.Spec.RestartPolicy == corev1.RestartPolicyAlways && d.Generation == 1, d)

	// The list of containers is merged by name: the first one stays.
	d, err = deps.Patch(ctx, "web", types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"img:2"}]}}}}`), patch)
	c.True("deployment: strategic merge patch", err == nil && len(d.Spec.Template.Spec.Containers) == 2 &&
		d.Generation == 2, err, d)

	apply := applyappsv1.Deployment("web", ns).WithSpec(applyappsv1.DeploymentSpec().WithReplicas(3))
	d, err = deps.Apply(ctx, apply, metav1.ApplyOptions{FieldManager: "first", Force: true})
	c.True("deployment: apply", err == nil && ptr.Deref(d.Spec.Replicas, 0) == 3, err, d)
	apply.Spec.WithReplicas(4)
	_, err = deps.Apply(ctx, apply, metav1.ApplyOptions{FieldManager: "second"})
	c.True("deployment: applying another manager's field says Conflict", apierrors.IsConflict(err), err)

	scale, err := deps.GetScale(ctx, "web", get)
	c.True("deployment: scale", err == nil && scale.Spec.Replicas == 3, err, scale)

	list, err := deps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=web"})
	c.True("deployment: list by a field", err == nil && len(list.Items) == 1, err, list)
	c.OK("deployment: delete", deps.Delete(ctx, "web", del))
}

// leases: the micro-time fields and an update.
func leases(ctx context.Context, cs kubernetes.Interface, ns string) {
	ls := cs.CoordinationV1().Leases(ns)
	now := metav1.NewMicroTime(time.Now().Truncate(time.Microsecond))

	l, err := ls.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "lease"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("me"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &now},
	}, create)
	if !c.OK("lease: create", err) {
		return
	}
	c.True("lease: microseconds are kept", l.Spec.RenewTime != nil && l.Spec.RenewTime.Equal(&now), l.Spec.RenewTime, now)
	l.Spec.HolderIdentity = ptr.To("you")
	l, err = ls.Update(ctx, l, update)
	c.True("lease: update", err == nil && ptr.Deref(l.Spec.HolderIdentity, "") == "you", err, l)
	c.OK("lease: delete", ls.Delete(ctx, "lease", del))
}

// identity: our own access, then a service account's token and what it may do.
func identity(ctx context.Context, cfg *rest.Config, cs kubernetes.Interface, ns string) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ns, Verb: "create", Resource: "configmaps"},
	}}
	answer, err := cs.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, create)
	c.True("access review: we may create configmaps", err == nil && answer.Status.Allowed, err, answer)

	sas := cs.CoreV1().ServiceAccounts(ns)
	_, err = sas.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, create)
	c.OK("serviceaccount: create", err)
	token, err := sas.CreateToken(ctx, "robot", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](600)},
	}, create)
	if !c.OK("serviceaccount: create a token", err) {
		return
	}
	c.True("serviceaccount: it is a JWT that expires", strings.Count(token.Status.Token, ".") == 2 &&
		token.Status.ExpirationTimestamp.After(time.Now()), token.Status)

	robotCfg := rest.AnonymousClientConfig(cfg)
	robotCfg.BearerToken = token.Status.Token
	robot := kubernetes.NewForConfigOrDie(robotCfg)
	who, err := robot.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, create)
	c.True("token: it is the service account's", err == nil &&
		who.Status.UserInfo.Username == "system:serviceaccount:"+ns+":robot", err, who)
	answer, err = robot.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, create)
	c.True("token: the service account may not create configmaps", err == nil && !answer.Status.Allowed, err, answer)
	_, err = robot.CoreV1().ConfigMaps(ns).Create(ctx, configMap("robot", "a", "1"), create)
	c.True("token: and doing it is Forbidden", apierrors.IsForbidden(err), err)
}

// informer: a shared informer sees what was there and each change, and gets its
// initial list as a watch (sendInitialEvents), never falling back to LIST.
func informer(ctx context.Context, cfg *rest.Config, cs kubernetes.Interface, ns string) {
	cms := cs.CoreV1().ConfigMaps(ns)
	_, err := cms.Create(ctx, configMap("before", "a", "1"), create)
	c.OK("informer: create an object before it starts", err)

	var traffic kit.Traffic
	factory := informers.NewSharedInformerFactoryWithOptions(
		kubernetes.NewForConfigOrDie(traffic.Wrap(cfg)), 0, informers.WithNamespace(ns))
	shared := factory.Core().V1().ConfigMaps()

	var mu sync.Mutex
	seen := map[string]bool{}
	note := func(event string, obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		cm := obj.(*corev1.ConfigMap)
		mu.Lock()
		defer mu.Unlock()
		seen[event+" "+cm.Name+" "+cm.Data["a"]] = true
	}
	saw := func(event string) {
		c.Soon("informer: "+event, 10*time.Second, func() error {
			mu.Lock()
			defer mu.Unlock()
			if !seen[event] {
				return fmt.Errorf("saw only %v", seen)
			}
			return nil
		})
	}
	_, err = shared.Informer().AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if initial {
				note("initial", obj)
			} else {
				note("add", obj)
			}
		},
		UpdateFunc: func(_, obj any) { note("update", obj) },
		DeleteFunc: func(obj any) { note("delete", obj) },
	})
	c.OK("informer: add a handler", err)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	factory.Start(ctx.Done())
	syncCtx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	if !c.True("informer: sync", cache.WaitForCacheSync(syncCtx.Done(), shared.Informer().HasSynced), "not in 20 s") {
		return
	}
	saw("initial before 1")

	live, err := cms.Create(ctx, configMap("live", "a", "1"), create)
	if !c.OK("informer: create", err) {
		return
	}
	saw("add live 1")
	live.Data["a"] = "2"
	_, err = cms.Update(ctx, live, update)
	c.OK("informer: update", err)
	saw("update live 2")
	cached, err := shared.Lister().ConfigMaps(ns).Get("live")
	c.True("informer: the lister has the new value", err == nil && cached.Data["a"] == "2", err, cached)
	c.OK("informer: delete", cms.Delete(ctx, "live", del))
	saw("delete live 2")
	left, err := shared.Lister().ConfigMaps(ns).List(labels.Everything())
	c.True("informer: the lister has it no more", err == nil && !contains(left, "live") && contains(left, "before"), err, left)

	isList := func(e kit.Exchange) bool { return !strings.Contains(e.Query, "watch=") }
	isWatchList := func(e kit.Exchange) bool {
		return strings.Contains(e.Query, "sendInitialEvents=true") && e.Status == 200
	}
	c.True("informer: the initial list came as a watch",
		len(traffic.Where(isWatchList)) > 0 && len(traffic.Where(isList)) == 0,
		fmt.Sprintf("%+v", traffic.Where(func(kit.Exchange) bool { return true })))
}

// election: one candidate leads, and when it resigns the other one takes over.
func election(ctx context.Context, cs kubernetes.Interface, ns string) {
	ctx, cancelAll := context.WithCancel(ctx)
	defer cancelAll()
	leads := make(chan string, 10)
	candidate := func(id string) (resign func()) {
		ctx, cancel := context.WithCancel(ctx)
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: ns, Name: "leader"},
				Client:     cs.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: id},
			},
			LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: 500 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leads <- id },
				OnStoppedLeading: func() {},
			},
		})
		c.Must("election: candidate "+id, err)
		go elector.Run(ctx)
		return cancel
	}
	next := func() string {
		select {
		case id := <-leads:
			return id
		case <-time.After(15 * time.Second):
			return "no one"
		}
	}

	resign := candidate("one")
	first := next()
	c.True("election: one leads", first == "one", first, " leads")
	_ = candidate("two")
	select {
	case id := <-leads:
		c.True("election: there is one leader at a time", false, id, " leads too")
	case <-time.After(2 * time.Second):
		c.True("election: there is one leader at a time", true)
	}
	resign()
	second := next()
	c.True("election: then two leads", second == "two", second, " leads")
	c.Soon("election: the lease says so", 5*time.Second, func() error {
		l, err := cs.CoordinationV1().Leases(ns).Get(ctx, "leader", get)
		if err == nil && ptr.Deref(l.Spec.HolderIdentity, "") != "two" {
			err = errors.New("held by another")
		}
		return err
	})
}

func configMap(name, key, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{key: value}}
}

func deployment(name string, set map[string]string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: set},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: set},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "img:1"}}},
			},
		},
	}
}

func contains(cms []*corev1.ConfigMap, name string) bool {
	for _, cm := range cms {
		if cm.Name == name {
			return true
		}
	}
	return false
}

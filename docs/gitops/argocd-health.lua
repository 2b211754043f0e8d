-- Health of a BookieCluster for Argo CD, by its conditions Ready and Stalled.
-- Argo CD takes it as resource.customizations.health.bookkeeper.bookie-operator.dev_BookieCluster
-- of the ConfigMap argocd-cm; docs/gitops.md has the whole.
local health = { status = "Progressing", message = "the operator has not reported on it yet" }
local status = obj.status
if status == nil or status.conditions == nil then
  return health
end
if status.observedGeneration ~= obj.metadata.generation then
  health.message = "the operator has not seen this generation yet"
  return health
end
if obj.spec ~= nil and obj.spec.paused then
  return { status = "Suspended", message = "spec.paused is true" }
end
local ready = nil
for _, condition in ipairs(status.conditions) do
  if condition.type == "Stalled" and condition.status == "True" then
    return { status = "Degraded", message = condition.reason .. ": " .. (condition.message or "") }
  end
  if condition.type == "Ready" then
    ready = condition
  end
end
if ready == nil then
  return health
end
if ready.status == "True" then
  return { status = "Healthy", message = ready.message or "" }
end
health.message = ready.reason .. ": " .. (ready.message or "")
return health
